"""The pipeline file of tests that need no logs."""

PIPELINE = """
name: searches
datacenters: {east: {logs: logs/east}, west: {logs: logs/west}}
primary: {files: "queries/*.csv", format: csv, id: query, time: at}
foreign: {files: "clicks/*.csv", format: csv, id: click, key: query, time: at}
"""
