package journal_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// An owner of a partition takes records and commits a step. Another owner that has not seen that step is refused.
func Example() {
	ctx := context.Background()
	log := journal.NewMemory(journal.MemoryOptions{})
	defer log.Close()
	if _, err := log.Append(ctx, 0, []byte("deposit 5"), []byte("deposit 7")); err != nil {
		panic(err)
	}

	before, err := log.Restore(ctx, 0)
	if err != nil {
		panic(err)
	}
	records, err := log.Read(ctx, 0, 0)
	if err != nil {
		panic(err)
	}
	defer records.Close()
	messages, err := records.Next(ctx, 1<<20)
	if err != nil {
		panic(err)
	}
	for _, m := range messages {
		fmt.Printf("%q\n", m.Records)
	}
	if _, err := log.Commit(ctx, 0, before.Fence, []byte("the balance is 12")); err != nil {
		panic(err)
	}

	_, err = log.Commit(ctx, 0, before.Fence, []byte("the balance is 5"))
	fmt.Println(errors.Is(err, journal.ErrFenced))
	after, err := log.Restore(ctx, 0)
	if err != nil {
		panic(err)
	}
	for _, s := range after.Steps {
		fmt.Printf("%s\n", s.Data)
	}
	// Output:
	// ["deposit 5" "deposit 7"]
	// true
	// the balance is 12
}
