package host

import (
	"github.com/millrace/millrace/agentproto/host/internal/quota"
)

// A Rate is how many bytes are taken in, Second of them a second and Burst at once. Each message
// counts as 256 bytes more than it has.
type Rate struct{ Second, Burst int64 }

// Rates are how many bytes of callbacks a [Runtime] takes in. A message has to fit into all four. The
// zero value of each number is the default that its field's comment names.
//
// Results, authorizations, choices and final events are taken in also beyond the rates, for nobody may
// be able to send them again: as many of each as the protocol lets one call have. They use up what
// comes after them.
type Rates struct {
	Call    Rate // of one callback URL: 64 KiB a second, 2 MiB at once
	Session Rate // of all callback URLs of a session: 256 KiB and 8 MiB
	Toolset Rate // of all callback URLs of a tool server: 4 MiB and 32 MiB
	Process Rate // of all: 16 MiB and 64 MiB
}

// bounds returns r as the intake has them.
func (r Rates) bounds() quota.Rates {
	return quota.Rates{Call: quota.Rate(r.Call), Session: quota.Rate(r.Session), Toolset: quota.Rate(r.Toolset), Process: quota.Rate(r.Process)}
}
