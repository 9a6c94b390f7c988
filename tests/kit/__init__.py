"""What only the tests of this repository need: servers, proxies, machines, the reference model, broken stores."""
