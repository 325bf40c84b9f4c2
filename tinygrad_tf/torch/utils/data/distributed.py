"""torch.utils.data.distributed: importable, since programs import it at the top."""

from ...unsupported import PROCESSES, lookup, refused_class

DistributedSampler = refused_class("torch.utils.data.distributed.DistributedSampler", PROCESSES)
__getattr__ = lookup("torch.utils.data.distributed")
