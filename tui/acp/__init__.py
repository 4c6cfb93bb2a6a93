"""`ebb acp`: sessions for editors, over the Agent Client Protocol on standard input and output. What is shown, and what
questions may be answered, is made of the same values as in the terminal; only this folder knows the protocol's library.
"""
