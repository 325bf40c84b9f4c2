"""torch.nn.parallel: importable, since programs import it at the top."""

from ..unsupported import PROCESSES, lookup, refused_class

DistributedDataParallel = refused_class("torch.nn.parallel.DistributedDataParallel", PROCESSES)
DataParallel = refused_class("torch.nn.parallel.DataParallel", PROCESSES)
__getattr__ = lookup("torch.nn.parallel")
