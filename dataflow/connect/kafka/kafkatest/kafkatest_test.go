package kafkatest_test

import (
	"os"
	"testing"

	"github.com/millrace/millrace/dataflow/connect/kafka/kafkatest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	kafkatest.Stop()
	os.Exit(code)
}

func TestOneBrokerForAll(t *testing.T) {
	a := kafkatest.Start(t)
	if b := kafkatest.Start(t); a != b {
		t.Errorf("second broker at %s, want the one at %s", b, a)
	}
}
