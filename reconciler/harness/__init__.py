"""Configuration texts of agent harnesses in, merged texts out. Not built yet.

Until then ``handler session open`` prints the sockets that a harness is pointed at.
"""
