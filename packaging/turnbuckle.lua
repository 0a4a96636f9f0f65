-- Lmod: copy to MODULEPATH/turnbuckle/0.2.0.lua, and say where it was installed (docs/install.md).
local prefix = "/opt/turnbuckle/0.2.0"

help([[Turnbuckle 0.2.0: what a recorded GPU run would do if CPU and GPU stood closer or farther apart.
turnbuckle --help, man turnbuckle]])
whatis("Name: turnbuckle")
whatis("Version: 0.2.0")
whatis("Description: projects recorded GPU runs on other couplings of CPU and GPU")
whatis("License: Apache-2.0")

-- `command` holds the program alone: the environment's `bin` has a python, which would take the place of yours
prepend_path("PATH", pathJoin(prefix, "command"))
prepend_path("MANPATH", pathJoin(prefix, "share/man"))
prepend_path("XDG_DATA_DIRS", pathJoin(prefix, "share"))
