package host

import (
	"github.com/millrace/millrace/agentproto/host/internal/quota"
)

// A Rate limits bytes: Second of them per second, and Burst at once. Each message counts 256 bytes in addition to its size.
type Rate struct{ Second, Burst int64 }

// Rates limit how many bytes of callbacks a [Runtime] accepts. A message has to fit into all four. A zero number means the
// default that its field's comment names.
//
// Results, authorizations, choices and final events are accepted even beyond the rates, because perhaps nobody can send them
// again: as many of each as the protocol allows one call. They still use up the rates for later messages.
type Rates struct {
	Call    Rate // of one callback URL: 64 KiB a second, 2 MiB at once
	Session Rate // of all callback URLs of a session: 256 KiB and 8 MiB
	Toolset Rate // of all callback URLs of a tool server: 4 MiB and 32 MiB
	Process Rate // of all: 16 MiB and 64 MiB
}

// bounds converts r for package quota.
func (r Rates) bounds() quota.Rates {
	return quota.Rates{Call: quota.Rate(r.Call), Session: quota.Rate(r.Session), Toolset: quota.Rate(r.Toolset), Process: quota.Rate(r.Process)}
}
