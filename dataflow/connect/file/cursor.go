package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
)

// A cursor reads a file.
type cursor[V any] struct {
	*Reader[V]
	split connect.Split
	path  string
	file  *os.File
	data  io.Reader

	decode func(record []byte) (v V, ok bool, err error)
	head   []byte // the file's first records, which are not data
	unread []byte // read from the file, but not in a batch yet
	at     uint64 // position where unread starts
	scan   scan   // of the first record in unread
	long   []byte // the beginning of a record that is too long and whose rest is skipped; otherwise nil
	quiet  int    // how often the file was looked at without new data since it lost its name
}

const (
	chunk      = 64 << 10
	mostAtOnce = 1000
)

// begin moves to a position.
func (c *cursor[V]) begin(after uint64) (err error) {
	if c.data, err = uncompressed(c.file, c.path); err != nil {
		return err
	}
	if c.form.heads > 0 {
		if c.head, _, err = c.records(c.data, c.form.heads); err != nil {
			return err
		}
		after = max(after, uint64(len(c.head)))
		if _, err = c.file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if c.data, err = uncompressed(c.file, c.path); err != nil {
			return err
		}
	}
	c.decode = c.form.decoder(c.head)
	c.at = after
	if !compressed(c.path) {
		info, err := c.file.Stat()
		if err == nil && uint64(info.Size()) < after {
			return shorter(info.Size(), after)
		}
		if err == nil {
			_, err = c.file.Seek(int64(after), io.SeekStart)
		}
		return err
	}
	n, err := io.CopyN(io.Discard, c.data, int64(after))
	if errors.Is(err, io.EOF) {
		return shorter(n, after)
	}
	return err
}

func shorter(size int64, read uint64) error {
	return fmt.Errorf("%w: the file has %d bytes, and %d were read", connect.ErrGap, size, read)
}

// Next implements connect.Cursor.
func (c *cursor[V]) Next(ctx context.Context, b *connect.Batch[struct{}, V]) error {
	for {
		if c.take(b); b.End.Major > 0 {
			return nil
		}
		n, err := c.more()
		switch {
		case n > 0:
		case err == nil:
		case err != io.EOF:
			return fmt.Errorf("file: %s: %w", c.split, connect.Retry(err))
		case !c.opts.Follow || compressed(c.path):
			c.last(b)
			return io.EOF
		default:
			if err := c.wait(ctx); err != nil {
				return err
			}
		}
	}
}

// more reads more of the file.
func (c *cursor[V]) more() (int, error) {
	if cap(c.unread)-len(c.unread) < chunk {
		c.unread = append(make([]byte, 0, 2*len(c.unread)+4*chunk), c.unread...)
	}
	n, err := c.data.Read(c.unread[len(c.unread):cap(c.unread)])
	c.unread = c.unread[:len(c.unread)+n]
	return n, err
}

// take adds whole records to a batch. How the file was read in parts makes no difference.
func (c *cursor[V]) take(b *connect.Batch[struct{}, V]) {
	for len(b.At)+len(b.Bad) < mostAtOnce {
		n := c.form.end(c.unread, &c.scan)
		if n == 0 {
			if c.long != nil || len(c.unread)-1 > c.opts.MaxRecord { // a \r at the end may belong to the line end
				c.scan.before, c.scan.at = c.scan.before+len(c.unread), 0
				c.pass(len(c.unread))
			}
			return
		}
		c.scan = scan{}
		if c.long != nil {
			c.pass(n)
			c.tooLong(b)
			continue
		}
		record := c.unread[:n]
		c.skip(n)
		c.add(b, record)
	}
}

// pass skips a part of a record that is too long.
func (c *cursor[V]) pass(n int) {
	const most = connect.MaxRaw + len("x\r\n") // so that one can tell whether there are more than MaxRaw bytes
	c.long = append(c.long, c.unread[:min(n, most-len(c.long))]...)
	c.skip(n)
}

// tooLong adds a record that was passed.
func (c *cursor[V]) tooLong(b *connect.Batch[struct{}, V]) {
	b.AddBad(c.split, c.position(), withoutEnd(c.long), fmt.Errorf("a record has more than %d bytes", c.opts.MaxRecord))
	c.long = nil
}

// withoutEnd returns a record without the end of its line.
func withoutEnd(record []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(record, []byte("\n")), []byte("\r"))
}

func (c *cursor[V]) skip(n int) {
	c.unread = c.unread[n:]
	c.at += uint64(n)
}

func (c *cursor[V]) position() dataflow.Position { return dataflow.Position{Major: c.at} }

// add adds a record that ends at the cursor.
func (c *cursor[V]) add(b *connect.Batch[struct{}, V], record []byte) {
	record = withoutEnd(record)
	if len(record) > c.opts.MaxRecord {
		b.AddBad(c.split, c.position(), record, fmt.Errorf("a record has more than %d bytes", c.opts.MaxRecord))
		return
	}
	v, ok, err := connect.Decode(c.decode, record)
	switch {
	case err != nil:
		b.AddBad(c.split, c.position(), record, err)
	case ok:
		b.Add(struct{}{}, v, c.position())
	default:
		b.End = c.position()
	}
}

// last adds the end of the file, if it has no line end.
func (c *cursor[V]) last(b *connect.Batch[struct{}, V]) {
	if c.long != nil {
		c.tooLong(b)
	} else if record := c.unread; len(record) > 0 {
		c.skip(len(record))
		c.add(b, record)
	}
}

// wait waits until the file may have more data. It returns io.EOF if the file has had no name for long, and an error if it has
// become shorter.
func (c *cursor[V]) wait(ctx context.Context) error {
	t := time.NewTimer(c.opts.Poll)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	info, err := c.file.Stat()
	if err != nil {
		return fmt.Errorf("file: %s: %w", c.split, connect.Retry(err))
	}
	if read := c.at + uint64(len(c.unread)); uint64(info.Size()) < read {
		return fmt.Errorf("file: %s: %w", c.split, shorter(info.Size(), read))
	} else if uint64(info.Size()) > read {
		c.quiet = 0
		return nil
	}
	if now, err := os.Stat(c.path); err == nil && os.SameFile(now, info) {
		c.quiet = 0
		return nil
	}
	paths, err := filepath.Glob(c.pattern)
	if err != nil {
		return fmt.Errorf("file: %s: %w", c.pattern, err)
	}
	for _, path := range paths {
		if now, err := os.Stat(path); err == nil && os.SameFile(now, info) {
			c.path = path
			return nil
		}
	}
	// A process that has the file open may still write to it.
	if c.quiet++; c.quiet > quietPolls {
		return io.EOF
	}
	return nil
}

// quietPolls is how often a file without a name is looked at before it counts as ended.
const quietPolls = 25

// Confirm does nothing, because files do not forget.
func (c *cursor[V]) Confirm(context.Context, dataflow.Position) error { return nil }

// Close closes the file.
func (c *cursor[V]) Close() error { return c.file.Close() }
