package leak

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
)

const redacted = "[redacted]"

// Redact returns a log handler that replaces everything in which a guard finds a secret.
func Redact(next slog.Handler, g *Guard) slog.Handler { return &redactor{next, g} }

// A redactor is a log handler that replaces text that contains a live secret with "[redacted]", and
// passes everything else on. It is the last line of defense: the server does not mean to log
// secrets, but the errors of other packages may contain them.
type redactor struct {
	next  slog.Handler
	guard *Guard
}

func (h *redactor) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *redactor) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, h.text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.attr(a))
		return true
	})
	return h.next.Handle(ctx, clean)
}

func (h *redactor) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &redactor{h.next.WithAttrs(h.attrs(attrs)), h.guard}
}

func (h *redactor) WithGroup(name string) slog.Handler {
	return &redactor{h.next.WithGroup(h.text(name)), h.guard}
}

func (h *redactor) text(s string) string {
	if h.guard.Finds([]byte(s)) {
		return redacted
	}
	return s
}

func (h *redactor) attrs(attrs []slog.Attr) []slog.Attr {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = h.attr(a)
	}
	return clean
}

func (h *redactor) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		v = slog.StringValue(h.text(v.String()))
	case slog.KindGroup:
		v = slog.GroupValue(h.attrs(v.Group())...)
	case slog.KindAny:
		if h.shows(v.Any()) {
			v = slog.StringValue(redacted)
		}
	}
	return slog.Attr{Key: h.text(a.Key), Value: v}
}

// shows reports whether a handler that formats x, as text or as JSON, would show a
// secret.
func (h *redactor) shows(x any) bool {
	if b, ok := x.([]byte); ok && h.guard.Finds(b) {
		return true
	}
	if h.guard.Finds(fmt.Appendf(nil, "%+v", x)) {
		return true
	}
	text, err := json.Marshal(x)
	return err == nil && h.guard.Finds(text)
}
