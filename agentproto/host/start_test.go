package host

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// An away opener has a log that cannot be reached.
type away struct{}

func (away) Open(ctx context.Context, _ journal.OpenOptions) (journal.Log, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func (away) String() string { return "away" }

// TestStartGivesUp ends the context of a start that waits for its log.
func TestStartGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sealer, err := SealerOf([32]byte{1})
		if err != nil {
			t.Fatal(err)
		}
		quiet := slog.New(slog.DiscardHandler)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = Start(ctx, Options{External: true, PublicURL: "https://runtime.test", Sealer: sealer, Logger: quiet, State: &durable.Options{Log: away{}, Logger: quiet}})
		if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Start = %v", err)
		}
	})
}
