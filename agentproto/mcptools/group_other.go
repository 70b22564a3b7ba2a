//go:build !unix

package mcptools

import "os/exec"

func ownGroup(*exec.Cmd) {}

func terminateGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func waitGroup(cmd *exec.Cmd) error { return cmd.Wait() }

func identity(int) string { return "" }

func killLeft(int) {}
