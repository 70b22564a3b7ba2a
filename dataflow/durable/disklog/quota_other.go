//go:build !unix

package disklog

func isQuota(error) bool { return false }
