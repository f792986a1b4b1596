"""The threads that run steps: how they wait and work, and how many of them a step takes."""
