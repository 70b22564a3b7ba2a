package callback

import (
	"slices"

	"github.com/millrace/millrace/agentproto"
)

// Sizes are the maximum sizes of messages in bytes, by type: see host.Sizes, which documents the defaults.
type Sizes struct{ Result, Images, Event, OAuth, Choice, View int64 }

// WithDefaults returns s with every zero replaced.
func (s Sizes) WithDefaults(limits agentproto.Limits) Sizes {
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

// Most returns the maximum size of any message.
func (s Sizes) Most() int64 {
	return max(s.Result, s.Images, s.Event, s.OAuth, s.Choice, s.View)
}

// of returns the maximum size of a message of this type.
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
	return s.Most()
}
