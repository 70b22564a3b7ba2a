package inspect

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow/durable"
)

// An opened is a flow that counts the calls of History.
type opened int

func (o *opened) History(context.Context) (*durable.History, error) {
	*o++
	return new(durable.History), nil
}

// TestHistoryIsForgotten checks that an open history is dropped after it was unused for pastKept, and kept while it is used.
func TestHistoryIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var app opened
		p := &past{app: &app, busy: make(chan struct{}, 1)}
		for _, x := range []struct {
			after time.Duration
			want  opened
		}{{0, 1}, {pastKept - time.Second, 1}, {pastKept - time.Second, 1}, {pastKept + time.Second, 2}, {time.Second, 2}} {
			time.Sleep(x.after)
			if h, err := p.open(t.Context()); h == nil || err != nil || app != x.want {
				t.Errorf("%v later the history was opened %d times, want %d: %v", x.after, app, x.want, err)
			}
		}
	})
}
