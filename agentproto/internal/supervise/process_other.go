//go:build !unix

package supervise

import "os/exec"

func own(*exec.Cmd) {}

// interrupt does nothing where there are no signals: the program has to notice that its standard
// input is closed.
func interrupt(*exec.Cmd) {}

func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func wait(cmd *exec.Cmd) error { return cmd.Wait() }
