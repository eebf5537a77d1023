"""How rounds are computed: clients on disk, TFF's processes, and the program that runs round after round."""
