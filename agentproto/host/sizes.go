package host

import (
	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/callback"
)

// Sizes are how many bytes a callback may have, by its type. A zero field means the default that its comment names. A larger
// callback is answered 413: a result, an authorization or a choice then resolves its call with an error, and an event is dropped.
// No default exceeds Limits.Bytes.
type Sizes struct {
	Result int64 // without images: [Options].Limits.Bytes, or 1 MiB
	Images int64 // a result with images: [Options].Limits.Bytes, or 8 MiB
	Event  int64 // 256 KiB
	OAuth  int64 // 16 KiB
	Choice int64 // 64 KiB
	View   int64 // 256 KiB
}

func (s Sizes) withDefaults(limits agentproto.Limits) Sizes {
	return Sizes(callback.Sizes(s).WithDefaults(limits))
}
