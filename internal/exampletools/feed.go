package exampletools

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// Feed returns a server of tools that send more than one message:
//
//	tick      opens a subscription that counts, and continues after a restart
//	watch     opens a subscription to a topic
//	publish   sends a text to the subscriptions to a topic
//	progress  works for a while and shows its progress in a view
//	delete    asks the user, once, for the session, or not at all
//
// An empty name in the options means "feed". As for the other servers, the error is
// that the State of the options cannot be opened.
func Feed(opts toolserver.Options) (*toolserver.Server, error) {
	named(&opts, "feed", "Tools that go on talking, to try the protocol with.")
	server, err := toolserver.Open(opts)
	if err != nil {
		return nil, err
	}
	AddFeed(server)
	return server, nil
}

// AddFeed adds the tools of [Feed] to a server.
func AddFeed(server *toolserver.Server) {
	addTick(server)
	addTopics(server)
	addProgress(server)
	addDelete(server)
}

// A counter is the state of tick: the last number. It includes every event that was
// sent, so a restart neither repeats nor skips a number.
type counter struct {
	Done int `json:"done"`
}

func addTick(server *toolserver.Server) {
	type clock struct {
		MS     uint32 `json:"ms" jsonschema:"how many milliseconds there are between two events"`
		Count  int    `json:"count,omitempty" jsonschema:"after how many events it ends; 0 for never"`
		Inline bool   `json:"inline,omitempty" jsonschema:"whether events are shown in the same thread"`
	}
	toolserver.AddSubscription(server, "tick", "Counts aloud until it is cancelled.", toolserver.ToolOptions{
		Annotations: agentproto.Annotations{ReadOnly: true, LongRunning: true},
	}, func(_ context.Context, in clock) (string, *counter, error) {
		if in.MS == 0 {
			return "", nil, errors.New("there must be some time between two events")
		}
		return fmt.Sprintf("counting, every %d ms", in.MS), new(counter), nil
	}, func(ctx context.Context, sub *toolserver.Subscription[counter]) error {
		in, err := toolserver.Arguments[clock](ctx)
		if err != nil {
			return err
		}
		ticks := time.NewTicker(time.Duration(in.MS) * time.Millisecond)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			n := sub.State().Done + 1
			e := toolserver.Event{Text: fmt.Sprintf("tick %d", n), Inline: in.Inline, Final: n == in.Count}
			if err := sub.Send(ctx, e, counter{n}); err != nil || e.Final {
				return err
			}
		}
	})
}

// topics holds what was published since the process began. Topics are not kept, while
// a real source would keep them elsewhere. A subscription that finds another source
// than the one it knows begins with the first text of the new source.
type topics struct {
	source string // of this process
	mu     sync.Mutex
	texts  map[string][]string
	news   chan struct{} // closed and replaced when there is a new text
}

func (t *topics) publish(name, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.texts[name] = append(t.texts[name], text)
	close(t.news)
	t.news = make(chan struct{})
}

// after returns the texts of a topic except the first n, and a channel that is closed
// when there are more.
func (t *topics) after(name string, n int) ([]string, chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.texts[name][min(n, len(t.texts[name])):], t.news
}

func addTopics(server *toolserver.Server) {
	all := &topics{source: time.Now().Format(time.RFC3339Nano), texts: make(map[string][]string), news: make(chan struct{})}
	// A cursor is how much of a topic a subscription has seen.
	type cursor struct {
		Source string `json:"source"`
		Seen   int    `json:"seen"`
	}
	type subject struct {
		Topic string `json:"topic" jsonschema:"the name of the topic"`
	}
	toolserver.AddSubscription(server, "watch", "Tells what is published about a topic from now on.", toolserver.ToolOptions{
		Annotations: agentproto.Annotations{ReadOnly: true, LongRunning: true},
	}, func(_ context.Context, in subject) (string, *cursor, error) {
		before, _ := all.after(in.Topic, 0)
		return fmt.Sprintf("watching %q", in.Topic), &cursor{all.source, len(before)}, nil
	}, func(ctx context.Context, sub *toolserver.Subscription[cursor]) error {
		in, err := toolserver.Arguments[subject](ctx)
		if err != nil {
			return err
		}
		at := sub.State()
		if at.Source != all.source {
			at = cursor{Source: all.source}
		}
		for {
			texts, news := all.after(in.Topic, at.Seen)
			for _, text := range texts {
				at.Seen++
				if err := sub.Send(ctx, toolserver.Event{Text: text, Inline: true}, at); err != nil {
					return err
				}
			}
			select {
			case <-news:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})

	type notice struct {
		Topic string `json:"topic" jsonschema:"the name of the topic"`
		Text  string `json:"text" jsonschema:"what to tell those who watch it"`
	}
	toolserver.Add(server, "publish", "Tells a text to those who watch a topic.",
		func(_ context.Context, in notice) (string, error) {
			all.publish(in.Topic, in.Text)
			return fmt.Sprintf("published about %q", in.Topic), nil
		})
}

func addProgress(server *toolserver.Server) {
	type work struct {
		Steps uint16 `json:"steps" jsonschema:"how many steps there are"`
		MS    uint16 `json:"ms" jsonschema:"how many milliseconds a step takes"`
	}
	type bar struct {
		Done  int `json:"done"`
		Steps int `json:"steps"`
	}
	toolserver.AddWithOptions(server, "progress", "Works for a while, and shows how far it is.", toolserver.ToolOptions{
		Annotations: agentproto.Annotations{ReadOnly: true, Idempotent: true},
	}, func(ctx context.Context, in work) (string, error) {
		for i := range int(in.Steps) {
			if err := toolserver.View(ctx, "progress", bar{i, int(in.Steps)}); err != nil {
				return "", err
			}
			select {
			case <-time.After(time.Duration(in.MS) * time.Millisecond):
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
		return fmt.Sprintf("%d steps done", in.Steps), toolserver.View(ctx, "progress", nil)
	})
}

func addDelete(server *toolserver.Server) {
	type file struct {
		Name string `json:"name" jsonschema:"what to delete"`
	}
	toolserver.AddWithOptions(server, "delete", "Pretends to delete something, if the user allows it.", toolserver.ToolOptions{
		Annotations: agentproto.Annotations{Destructive: true, Idempotent: true},
	}, func(ctx context.Context, in file) (string, error) {
		granted, err := toolserver.Granted(ctx, "delete")
		if err != nil {
			return "", err
		}
		if !granted {
			switch i, err := toolserver.Choose(ctx, fmt.Sprintf("Delete %q?", in.Name), []string{"Yes", "Yes, and whatever else in this session", "No"}, 2); {
			case err != nil:
				return "", err
			case i == 1:
				if err := toolserver.Grant(ctx, "delete"); err != nil {
					return "", err
				}
			case i == 2:
				return "not deleted", nil
			}
		}
		return fmt.Sprintf("%s deleted", in.Name), nil
	})
}
