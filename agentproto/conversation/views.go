package conversation

import (
	"bytes"
	"maps"

	"github.com/millrace/millrace/agentproto"
)

// view stores the content of a view.
func (t *turn) view(v *agentproto.ViewUpdate) {
	views := maps.Clone(t.s.Views)
	if string(bytes.Join(bytes.Fields(v.Content), nil)) == "{}" {
		delete(views, v.ViewType)
	} else if _, known := views[v.ViewType]; known || len(views) < maxViews {
		views[v.ViewType] = v.Content.Clone()
	}
	bytes := 0
	for kind, content := range views {
		bytes += len(kind) + len(content)
	}
	if bytes <= maxViewBytes {
		t.s.Views = views
	}
}

// The limits of the views that a thread keeps. An update beyond them is dropped (case V04).
const (
	maxViews     = 64
	maxViewBytes = 1 << 20
)
