//go:build unix

package mcptools_test

import (
	"os/exec"
	"os/signal"
	"syscall"
)

func ignoreSignals() { signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP) }

// alive reports whether a process with that ID exists.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// inGroup makes a program start in its own process group, and returns a function that kills the group.
func inGroup(cmd *exec.Cmd) (end func()) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
