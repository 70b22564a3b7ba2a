//go:build unix

package disklog

import (
	"errors"
	"syscall"
)

// isQuota reports whether an error says that a user's disk quota is used up.
func isQuota(err error) bool { return errors.Is(err, syscall.EDQUOT) }
