"""How rounds are computed: clients on disk, TFF's processes, and the program that runs the rounds."""
