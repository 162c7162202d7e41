"""Programs that Photon needs beside its Python packages: Java, Delta's JARs, dynoxide, DynamoDB Local.

`fetch` is what `photon setup` and `make setup` run. Each program has a module that says where it is: `java`,
`maven` (JARs and DynamoDB Local), `dynoxide`, `minio`. `npm` and `fetched` download a package, whole or not
at all, and check its hash; those of JARs are in `jars.sha256`. Read `fetched` first. The room that uses a
program starts it.
"""
