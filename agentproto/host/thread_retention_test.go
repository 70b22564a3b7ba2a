package host

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
)

// TestClosedThreadIsForgotten checks that a thread is forgotten a day after its closure,
// even after a restart, and can then be opened again.
func TestClosedThreadIsForgotten(t *testing.T) {
	t.Parallel()
	for _, kept := range []string{"memory", "disk"} {
		t.Run(kept, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				if kept == "disk" {
					w.opts.Sealer, _ = SealerOf([32]byte{1})
					w.opts.State = &durable.Options{Log: disklog.Dir(t.TempDir()), Logger: slog.New(slog.DiscardHandler)}
				}
				model := conversation.ModelFunc(func(context.Context, *conversation.Request) (*conversation.Reply, error) {
					return &conversation.Reply{Text: "hello"}, nil
				})
				th := w.converse(model)
				w.say(th, "go")
				if err := th.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.pass(20 * time.Hour)
				if kept == "disk" {
					stopNow(t, w.rt)
					w.opts.Listener = nil
					w.start()
					th = w.rt.Thread("s")
				}
				w.wantHistory(th, "\n\t\t\tuser: go\n\t\t\tassistant: hello\n\t\t\tclosed\n")
				w.pass(5 * time.Hour)
				if st, err := th.Status(t.Context()); err != nil || st.Session != nil {
					t.Fatalf("after a day: %+v, %v", st, err)
				}
				if _, err := w.rt.OpenSession(t.Context(), SessionRequest{ID: "s"}); err != nil {
					t.Fatal(err)
				}
				w.say(th, "again")
				w.wantHistory(th, "\n\t\t\tuser: again\n\t\t\tassistant: hello\n")
			})
		})
	}
}
