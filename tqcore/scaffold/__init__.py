"""``tqcore new-plugin``: a package to start from, written from the files in ``template``."""
