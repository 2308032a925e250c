"""``task: fid``: lines, free induction decay and spectrum of nuclei."""
