"""Pictures that the engine draws of itself. `python -m viz.gallery` makes them anew, `--check` says which would differ."""
