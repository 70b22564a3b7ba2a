//go:build unix

package mcptools_test

import (
	"os/exec"
	"os/signal"
	"syscall"
)

func ignoreSignals() { signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP) }

// alive reports whether there is a process of that number.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// inGroup has a program start in a group of its own, and returns a function that ends the group.
func inGroup(cmd *exec.Cmd) (end func()) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
