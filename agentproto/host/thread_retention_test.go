package host

import (
	"context"
	"log/slog"
	"slices"
	"strings"
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

// TestFollowWhatIsKept follows a long thread from its first message on, after most of its messages were dropped and can no longer
// be read. It fails if the reader waits for a message that is gone, and so has the rest minutes later.
func TestFollowWhatIsKept(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.Conversation.History = 8 << 10
		th := w.converse(conversation.ModelFunc(func(context.Context, *conversation.Request) (*conversation.Reply, error) {
			return &conversation.Reply{Text: strings.Repeat("hello ", 100)}, nil
		}))
		for range 20 {
			w.say(th, "go on")
		}
		w.pass(time.Hour)
		kept, err := th.History(t.Context())
		if err != nil || kept[1].N == 1 {
			t.Fatalf("%d messages are kept, %v, want that some are gone", len(kept), err)
		}
		for _, from := range []int{0, 1, kept[1].N - 1, kept[1].N} {
			began, want := time.Now(), slices.DeleteFunc(slices.Clone(kept), func(m conversation.Message) bool { return m.N < from })
			ctx, leave := context.WithTimeout(t.Context(), time.Second)
			var got []conversation.Message
			for m, err := range th.Follow(ctx, from) {
				if err != nil {
					break
				}
				if got = append(got, m); m.N == kept[len(kept)-1].N {
					break
				}
			}
			leave()
			if took := time.Since(began); transcript(got) != transcript(want) || took != 0 {
				t.Errorf("from %d: %d messages within %v, want %d at once", from, len(got), took, len(want))
			}
		}
	})
}
