"""Sample

Does the checker say what happened?

Systems: S1
"""
