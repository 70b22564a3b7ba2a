package undertest

import (
	"context"
	"crypto/rand"

	"github.com/millrace/millrace/agentproto/toolserver"
)

// A topic contains the texts that were published under a name in this process.
type topic struct {
	texts   []string
	changed chan struct{} // closed and replaced when there is another text
}

// A place is how far a subscription has read. Another process starts without texts, so a place is
// valid only in its own process.
type place struct {
	Name  string
	Epoch string
	Next  int
}

// epoch names this process.
var epoch = rand.Text()

func (k *stock) topic(name string) *topic {
	t := k.topics[name]
	if t == nil {
		t = &topic{changed: make(chan struct{})}
		k.topics[name] = t
	}
	return t
}

func (k *stock) publish(_ context.Context, in noted) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.topic(in.Name)
	t.texts = append(t.texts, in.Text)
	close(t.changed)
	t.changed = make(chan struct{})
	return "published", nil
}

// open starts after the texts that were published before.
func (k *stock) open(_ context.Context, in named) (string, *place, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return "subscribed", &place{in.Name, epoch, len(k.topic(in.Name).texts)}, nil
}

func (k *stock) produce(ctx context.Context, sub *toolserver.Subscription[place]) error {
	at := sub.State()
	if at.Epoch != epoch {
		at.Epoch, at.Next = epoch, 0
	}
	for {
		k.mu.Lock()
		t := k.topic(at.Name)
		texts, changed := t.texts, t.changed
		k.mu.Unlock()
		for at.Next < len(texts) {
			text := texts[at.Next]
			at.Next++
			if err := sub.Send(ctx, toolserver.Event{Text: text, Inline: true}, at); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
