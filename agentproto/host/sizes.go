package host

import (
	"slices"

	"github.com/millrace/millrace/agentproto"
)

// Sizes are how many bytes a callback may have, by its type. The zero value of each field is the default
// that its comment names. What has more is answered 413: a result, an authorization or a choice resolves
// its call with an error then, and an event is left out. No default is more than Limits.Bytes.
type Sizes struct {
	Result int64 // without images: [Options].Limits.Bytes, or 1 MiB
	Images int64 // a result with images: [Options].Limits.Bytes, or 8 MiB
	Event  int64 // 256 KiB
	OAuth  int64 // 16 KiB
	Choice int64 // 64 KiB
	View   int64 // 256 KiB
}

func (s Sizes) withDefaults(limits agentproto.Limits) Sizes {
	set := func(n *int64, to int64) {
		if *n == 0 {
			*n = to
		}
	}
	most := int64(8 << 20)
	if limits.Bytes != 0 {
		most = limits.Bytes
		set(&s.Result, most)
	}
	set(&s.Images, most)
	set(&s.Result, min(1<<20, most))
	set(&s.Event, min(256<<10, most))
	set(&s.OAuth, min(16<<10, most))
	set(&s.Choice, min(64<<10, most))
	set(&s.View, min(256<<10, most))
	return s
}

// most returns how many bytes any message may have.
func (s Sizes) most() int64 {
	return max(s.Result, s.Images, s.Event, s.OAuth, s.Choice, s.View)
}

// of returns how many bytes a message may have.
func (s Sizes) of(message agentproto.Callback) int64 {
	switch m := message.(type) {
	case *agentproto.ToolResult:
		if slices.ContainsFunc(m.Content, func(c agentproto.Content) bool { return c.Type == agentproto.KindImage }) ||
			slices.ContainsFunc(m.DisplayAs, func(d agentproto.Display) bool { return d.Image != nil }) {
			return s.Images
		}
		return s.Result
	case *agentproto.SubscriptionEvent:
		return s.Event
	case *agentproto.OAuth:
		return s.OAuth
	case *agentproto.UserChoice:
		return s.Choice
	case *agentproto.ViewUpdate:
		return s.View
	}
	return s.most()
}
