"""Landing: topics of a broker become log files."""
