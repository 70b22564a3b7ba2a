package postgrestest

import "syscall"

// endWithParent stops the server when the tests end without running cleanups.
func endWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGQUIT }
