//go:build unix && !linux

package mcptools

import "os/exec"

func waitGroup(cmd *exec.Cmd) error {
	err := cmd.Wait()
	killGroup(cmd)
	return err
}

// identity is not known here, so programs left by an earlier process are not ended.
func identity(int) string { return "" }

func killLeft(int) {}
