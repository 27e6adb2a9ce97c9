"""The page at / of the server: HTML, CSS and JavaScript without a build step.

The folder is a package so that its files are installed with the others.
"""
