package connect_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/keyedstream"
)

// A mailbox is a third party's connector: each file of a folder is a mailbox, and each of its lines a mail. The position of a
// mail is the byte offset of its end.
type mailbox struct{ dir string }

func (m mailbox) Splits(context.Context) (all []connect.Split, err error) {
	names, err := filepath.Glob(filepath.Join(m.dir, "*.mbox"))
	for _, name := range names {
		all = append(all, connect.Split{ID: "mail/" + filepath.Base(name), Name: filepath.Base(name)})
	}
	return all, err
}

func (m mailbox) Open(_ context.Context, s connect.Split, after dataflow.Position) (connect.Cursor[struct{}, string], error) {
	data, err := os.ReadFile(filepath.Join(m.dir, s.Name))
	if err != nil {
		return nil, err
	}
	if after.Major > uint64(len(data)) {
		return nil, fmt.Errorf("%w: %s has %d bytes, and %d were read", connect.ErrGap, s.Name, len(data), after.Major)
	}
	return &mails{data: data, read: after.Major}, nil
}

func (m mailbox) Close() error { return nil }

type mails struct {
	data []byte
	read uint64
}

func (c *mails) Next(_ context.Context, b *connect.Batch[struct{}, string]) error {
	line, _, found := bytes.Cut(c.data[c.read:], []byte("\n"))
	if !found {
		return io.EOF
	}
	c.read += uint64(len(line)) + 1
	b.Add(struct{}{}, string(line), dataflow.Position{Major: c.read})
	return nil
}

func (c *mails) Confirm(context.Context, dataflow.Position) error { return nil }
func (c *mails) Close() error                                     { return nil }

// A printer is a third party's sink. It prints an element twice if it is written twice.
type printer struct{ printed chan bool }

func (p printer) Open(context.Context, connect.Lane) (connect.Writer[string, connect.Repeats], uint64, error) {
	return p, 0, nil
}

func (p printer) Write(_ context.Context, first uint64, lines []string) (connect.Repeats, error) {
	for i, line := range lines {
		fmt.Println(first+uint64(i), line)
		p.printed <- true
	}
	return connect.Repeats{}, nil
}

func (printer) Close() error { return nil }

// The mails of a folder are read and printed. With durable.Start in place of dataflow.Start, each is taken once, even across
// crashes.
func Example() {
	dir, _ := os.MkdirTemp("", "mail")
	defer os.RemoveAll(dir)
	os.WriteFile(filepath.Join(dir, "ann.mbox"), []byte("hello\nhow are you\n"), 0o600)
	ctx := context.Background()

	flow := dataflow.New()
	in, mails := connect.WholeInput[string](dataflow.At[store](flow), "mails")
	out := dataflow.Output(dataflow.Map(mails, func(mail string) string { return "read: " + mail }), "out")
	app, _ := dataflow.Start(ctx, flow)

	p := printer{make(chan bool)}
	pumps, _ := connect.Attach(ctx, app, connect.Whole(mailbox{dir}), in, connect.Options{})
	drains := connect.Drain(ctx, app, out, p, connect.DrainOptions{Flow: "mail", Output: "out"})

	for range 2 { // a service waits for a signal instead
		<-p.printed
	}
	pumps.Stop(ctx)
	app.Stop(ctx)
	<-drains.Done()
	// Output:
	// 1 read: hello
	// 2 read: how are you
}

// A port drops records of a split whose position is not after the last one taken. A test sends to a port as a source would.
func ExamplePort_Send() {
	flow := dataflow.New()
	in, numbers := connect.Input[string, int](dataflow.At[store](flow), "numbers")
	out := keyedstream.Output(keyedstream.Map(numbers, func(n int) int { return 10 * n }), "out")
	app, _ := dataflow.Start(context.Background(), flow)

	var b connect.Batch[string, int]
	b.Add("a", 1, dataflow.Position{Major: 1})
	b.Add("a", 2, dataflow.Position{Major: 5})
	in.Send(context.Background(), "split 0", &b)
	b.Add("a", 3, dataflow.Position{Major: 9})
	in.Send(context.Background(), "split 0", &b) // the first two records again

	app.Stop(context.Background())
	for e := range out.All(context.Background()) {
		fmt.Println(e)
	}
	// Output:
	// a:10
	// a:20
	// a:30
}
