"""Assets of a user's own downstream of the days that Photon has closed: rates of clicks, in Spark SQL.

A model to be copied. Nothing of Photon imports it.
"""
