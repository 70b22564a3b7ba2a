package natslog

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

const (
	partitionsKey = "millrace.partitions" // in the metadata of both streams
	formatKey     = "millrace.format"
	identityKey   = "millrace.history"
	format        = "2" // of subjects and messages

	// duplicateWindow is how long servers remember the id of a message. Each id costs them about 143
	// bytes for that time.
	duplicateWindow = 2 * time.Minute
)

// ensureStreams finds the two streams, or creates them, and checks that they match the options.
func (l *Log) ensureStreams(ctx context.Context) error {
	if err := l.persist(ctx, "look for its streams", l.both); err != nil {
		return err
	}
	in := jetstream.StreamConfig{
		Name: l.in(), Subjects: []string{l.opts.Name + ".in.*"},
		Duplicates: duplicateWindow,
	}
	st := jetstream.StreamConfig{
		Name: l.st(), AllowRollup: true, DenyDelete: true,
	}
	l.records.name, l.records.records, l.steps.name = in.Name, true, st.Name
	l.records.part, l.steps.part = l.opts.bounds()
	for _, kind := range []string{kindStep, kindStepPiece, kindSnapshot, kindSnapshotPiece, kindStatePiece, kindPurged} {
		st.Subjects = append(st.Subjects, l.opts.Name+"."+kind+".*")
	}
	for i, cfg := range []jetstream.StreamConfig{in, st} {
		part := []int64{l.records.part, l.steps.part}[i]
		cfg.Storage = jetstream.FileStorage
		cfg.Replicas = l.opts.Replicas
		cfg.Discard = jetstream.DiscardNew // refuse new messages instead of deleting acknowledged ones
		cfg.AllowDirect = true
		// Servers that are creating the same stream for another process may not answer this
		// request, so the first attempts are short.
		within := time.Second
		if err := l.persist(ctx, "set up the stream "+cfg.Name, func(ctx context.Context) error {
			attempt, cancel := context.WithTimeout(ctx, within)
			defer cancel()
			within *= 2
			return l.ensure(attempt, cfg, part)
		}); err != nil {
			return err
		}
	}
	return nil
}

// both returns an error if one of the streams was lost, or if the log must exist and does not. The
// stream of records is created first, so it may exist alone while it is empty.
func (l *Log) both(ctx context.Context) error {
	steps, err := l.has(ctx, l.st())
	if err != nil {
		return err
	}
	records, err := l.has(ctx, l.in())
	if err != nil {
		return err
	}
	if steps == nil && records != nil && records.LastSeq > 0 {
		if steps, err = l.has(ctx, l.st()); err != nil { // another process may have created both in the meantime
			return err
		}
	}
	switch {
	case steps != nil && records == nil:
		return final{l.damaged("the stream %s is there and %s, which belongs to it, is gone", l.st(), l.in())}
	case steps == nil && records != nil && records.LastSeq > 0:
		return final{l.damaged("the stream %s has messages and %s, which belongs to it, is gone", l.in(), l.st())}
	case steps == nil && l.opts.Existing:
		return final{fmt.Errorf("%w of the name %q at %s%s", journal.ErrMissing, l.opts.Name, l.where(), l.others(ctx))}
	}
	return nil
}

// has returns the state of a stream, or nil if it does not exist.
func (l *Log) has(ctx context.Context, name string) (*jetstream.StreamState, error) {
	s, err := l.js.Stream(ctx, name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, nil
	case err != nil:
		return nil, l.hopeless(err, jetstream.StreamConfig{Name: name})
	}
	return &s.CachedInfo().State, nil
}

// others lists the existing names for an error message, for users who gave a wrong one.
func (l *Log) others(ctx context.Context) string {
	var names []string
	for stream := range l.js.StreamNames(ctx).Name() {
		if name, ok := strings.CutPrefix(stream, "ST_"); ok {
			names = append(names, strconv.Quote(name))
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return ": there is " + strings.Join(names, ", ")
}

// damaged returns the error of a history that must be repaired from outside.
func (l *Log) damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s; put back what was lost, or all of the history from one backup, or begin a new one elsewhere",
		journal.ErrDamaged, l.where(), fmt.Sprintf(format, args...))
}

// identityOf returns the identity of the history to which a stream belongs.
func identityOf(cfg jetstream.StreamConfig) (id journal.Identity, err error) {
	n, err := hex.Decode(id[:], []byte(cfg.Metadata[identityKey]))
	if err == nil && n != len(id) {
		err = errors.New("too short")
	}
	return id, err
}

// recognize ends the log if its streams are no longer those that were opened.
func (l *Log) recognize() {
	l.mu.Lock()
	asking := l.recognizing
	l.recognizing = true
	l.mu.Unlock()
	if asking {
		return
	}
	err := l.persist(l.ctx, "look for its streams again", l.checkIdentity)
	l.mu.Lock()
	l.recognizing = false
	l.mu.Unlock()
	if errors.Is(err, journal.ErrDamaged) {
		l.logger.Error("the history is not the one that was opened", "error", err)
		l.end(err)
	}
}

// checkIdentity returns an error if the streams are not those that were opened, because they were
// removed meanwhile, and perhaps created again.
func (l *Log) checkIdentity(ctx context.Context) error {
	for _, name := range []string{l.in(), l.st()} {
		s, err := l.js.Stream(ctx, name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			return final{l.damaged("the stream %s was removed", name)}
		case err != nil:
			return err
		}
		if id, err := identityOf(s.CachedInfo().Config); err != nil || id != l.identity {
			return final{l.damaged("the stream %s was removed and made anew: it is of the history %q, and was of %s", name, s.CachedInfo().Config.Metadata[identityKey], l.identity)}
		}
	}
	return nil
}

func (l *Log) ensure(ctx context.Context, cfg jetstream.StreamConfig, part int64) error {
	s, err := l.js.Stream(ctx, cfg.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		// The first stream fixes the number, even if the process that created it ended before it
		// created the second one.
		n := max(l.partitions, l.opts.Partitions, 1)
		id := l.identity
		if id == (journal.Identity{}) {
			rand.Read(id[:])
		}
		cfg.Metadata = map[string]string{partitionsKey: strconv.Itoa(n), formatKey: format, identityKey: id.String()}
		s, err = l.js.CreateStream(ctx, bounded(cfg, part, 0, 0))
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			s, err = l.js.Stream(ctx, cfg.Name) // another process was faster
		}
	}
	if err != nil {
		return l.hopeless(err, cfg)
	}
	info := s.CachedInfo()
	return l.accept(ctx, info.Config, bounded(cfg, part, info.State.Bytes, info.Config.MaxBytes))
}

// accept compares the configuration of a stream with the options.
func (l *Log) accept(ctx context.Context, have, want jetstream.StreamConfig) error {
	if f := have.Metadata[formatKey]; f != format {
		return final{fmt.Errorf("natslog: the stream %s has the format %q, this program knows %q: use another Name, or the program that made it", have.Name, f, format)}
	}
	if err := l.unfinished(have); err != nil {
		return err
	}
	n, err := strconv.Atoi(have.Metadata[partitionsKey])
	if err != nil || n < 1 {
		return final{fmt.Errorf("natslog: the stream %s does not say how many partitions it has", have.Name)}
	}
	id, err := identityOf(have)
	if err != nil || l.identity != (journal.Identity{}) && l.identity != id {
		return final{l.damaged("the stream %s is of the history %q, and %s of %s: one of them is another history's", have.Name, have.Metadata[identityKey], l.in(), l.identity)}
	}
	l.identity = id
	if l.opts.Partitions != 0 && l.opts.Partitions != n || l.partitions != 0 && l.partitions != n {
		return final{fmt.Errorf("natslog: %s was created with %d partitions, which cannot change, and is opened with %d", have.Name, n, max(l.opts.Partitions, l.partitions))}
	}
	if have.Replicas != want.Replicas {
		return final{fmt.Errorf("natslog: the stream %s has %d replicas and is opened with %d: scale it first, with the tools of the servers", have.Name, have.Replicas, want.Replicas)}
	}
	if have.Discard != want.Discard || have.Storage != want.Storage || have.Retention != want.Retention || have.MaxAge != 0 || have.MaxMsgs > 0 || have.MaxMsgsPerSubject > 0 {
		return final{fmt.Errorf("natslog: the stream %s was changed so that it may forget what it has acknowledged", have.Name)}
	}
	l.partitions = n
	if have.MaxBytes != want.MaxBytes {
		have.MaxBytes = want.MaxBytes
		if _, err := l.js.UpdateStream(ctx, have); err != nil {
			return l.hopeless(err, want)
		}
		l.logger.Info("changed the limit", "stream", have.Name, "bytes", want.MaxBytes)
	}
	return nil
}

// hopeless marks an error as final if waiting cannot help.
func (l *Log) hopeless(err error, cfg jetstream.StreamConfig) error {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return final{fmt.Errorf("natslog: %s have no JetStream for this account: %w; switch it on there", l.where(), err)}
	case !errors.As(err, &api):
		return err
	case full(api):
		return final{fmt.Errorf("natslog: no room for the stream %s: %w", cfg.Name, err)}
	case api.ErrorCode == codeNoSuitablePeers:
		return fmt.Errorf("%d replicas of the stream %s: %w", cfg.Replicas, cfg.Name, err)
	case api.Code == 400 || api.Code == 500 && api.ErrorCode == codeReplicasUnsupported:
		return final{fmt.Errorf("natslog: the stream %s: %w", cfg.Name, err)}
	}
	return err
}
