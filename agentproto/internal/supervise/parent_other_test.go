//go:build !linux

package supervise_test

const diesWithParent = false
