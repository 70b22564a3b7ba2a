//go:build unix

package mcptools_test

import (
	"os/signal"
	"syscall"
)

func ignoreSignals() { signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP) }

// alive reports whether there is a process of that number.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }
