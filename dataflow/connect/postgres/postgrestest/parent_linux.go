package postgrestest

import "syscall"

// endWithParent lets the server stop when the tests end in a way that runs no cleanup.
func endWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGQUIT }
