package natslog

import (
	"context"
	"fmt"
	"maps"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// unfinishedKey is set in the metadata of the stream of steps while a
// history is copied into the log.
const unfinishedKey = "millrace.unfinished"

var _ journal.Target = (*Log)(nil)

// BeginCopy makes Open refuse the streams with journal.ErrUnfinished until [Log.EndCopy].
func (l *Log) BeginCopy(ctx context.Context) error {
	return l.mark(ctx, "begin a copy", func(metadata map[string]string) { metadata[unfinishedKey] = "true" })
}

// EndCopy allows the streams to be opened again.
func (l *Log) EndCopy(ctx context.Context) error {
	return l.mark(ctx, "end a copy", func(metadata map[string]string) { delete(metadata, unfinishedKey) })
}

// mark changes the metadata of the stream of steps.
func (l *Log) mark(ctx context.Context, what string, change func(map[string]string)) error {
	return l.persist(ctx, what, func(ctx context.Context) error {
		s, err := l.js.Stream(ctx, l.st())
		if err != nil {
			return err
		}
		cfg := s.CachedInfo().Config
		cfg.Metadata = maps.Clone(cfg.Metadata)
		change(cfg.Metadata)
		_, err = l.js.UpdateStream(ctx, cfg)
		return err
	})
}

// unfinished returns an error if a copy into a stream was not completed.
func (l *Log) unfinished(have jetstream.StreamConfig) error {
	if have.Metadata[unfinishedKey] == "" {
		return nil
	}
	return final{fmt.Errorf("%w: the name %q at %s: remove the streams %s and %s, and copy again", journal.ErrUnfinished, l.opts.Name, l.where(), l.in(), l.st())}
}
