//go:build unix && !linux

package supervise

import (
	"os/exec"
	"syscall"
)

// dieWithParent does nothing where there is no parent-death signal: the program has to notice that
// its standard input is closed.
func dieWithParent(*syscall.SysProcAttr) {}

// wait waits for the end of a program, and kills the rest of its group.
func wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	kill(cmd)
	return err
}
