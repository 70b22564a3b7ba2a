package kafkatest_test

import (
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/dataflow/connect/kafka/kafkatest"
)

// All tests of a program share one broker, which its TestMain kills.
func Example() {
	_ = func(m *testing.M) { // func TestMain(m *testing.M)
		code := m.Run()
		kafkatest.Stop()
		os.Exit(code)
	}
	_ = func(t *testing.T) { // func TestProduce(t *testing.T)
		client, err := kgo.NewClient(kgo.SeedBrokers(kafkatest.Start(t)))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("bread")}).FirstErr(); err != nil {
			t.Error(err)
		}
	}
}
