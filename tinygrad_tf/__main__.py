"""`python -m tinygrad_tf` is the command `tinygrad-tf`."""

from .cli import main

if __name__ == "__main__":
    main()
