"""What a command line may do, as far as its text tells: it runs nothing and decides nothing."""
