"""Notice what goes wrong with other datacenters and with the registry, and keep joins right all the same.

`announcing` gives signs of life while a batch is open. `holders` watches those of the others, fences and
closes an epoch that is silent, so that its holds are free. `registry_watch` refuses a registry that is older
than a lake. `orders` are files by which verification has records looked at again. Lakes of others are asked
through `distant_lakes`, which waits for none that hangs.

The dispatcher calls all of it between batches; nothing is joined here. Read `holders.py` first.
"""
