// A worker or an application of River, or its migrations, by the kind it is told. It speaks with the
// benchmark as program.py says: one JSON argument, one JSON object an event, one command a line.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const slotBytes = 16

type told struct {
	Kind    string  `json:"kind"`
	URL     string  `json:"url"`
	Records string  `json:"records"`
	Slots   int64   `json:"slots"`
	Count   int64   `json:"count"`
	Rate    float64 `json:"rate"`
	Writers int     `json:"writers"`
	Note    string  `json:"note"`
	Pragmas string  `json:"pragmas"`
	TickS   float64 `json:"tick_s"`
	Load    load    `json:"load"`
}

type load struct {
	Count int64   `json:"count"`
	First int64   `json:"first"`
	Pace  float64 `json:"pace"`
	DueS  float64 `json:"due_s"`
}

var commands = bufio.NewScanner(os.Stdin)

func wallS() float64 { return float64(time.Now().UnixNano()) / 1e9 }

func tell(event string, values map[string]float64) {
	line := map[string]any{"event": event}
	for name, value := range values {
		line[name] = value
	}
	text, _ := json.Marshal(line)
	fmt.Println(string(text))
}

func isTold(command string) bool {
	return commands.Scan() && strings.TrimSpace(commands.Text()) == command
}

// recorder notes numbers and times in the file that records.py reads.
type recorder struct {
	file *os.File
	next atomic.Int64
	max  int64
}

func openRecorder(spec told) (*recorder, error) {
	file, err := os.OpenFile(spec.Records, os.O_RDWR, 0)
	return &recorder{file: file, max: spec.Slots}, err
}

func (r *recorder) note(number int64) error {
	slot := r.next.Add(1) - 1
	if slot >= r.max {
		return nil
	}
	var bytes [slotBytes]byte
	binary.LittleEndian.PutUint64(bytes[:8], math.Float64bits(float64(number)))
	binary.LittleEndian.PutUint64(bytes[8:], math.Float64bits(wallS()))
	_, err := r.file.WriteAt(bytes[:], slot*slotBytes)
	return err
}

type bill struct {
	Number int64  `json:"number"`
	Note   string `json:"note"`
}

func (bill) Kind() string { return "bill" }

type billWorker struct {
	river.WorkerDefaults[bill]
	records *recorder
}

func (w *billWorker) Work(_ context.Context, job *river.Job[bill]) error {
	return w.records.note(job.Args.Number)
}

// config has the settings of River's own benchmark; by default it looks once in 100 ms.
func config(workers *river.Workers) *river.Config {
	return &river.Config{
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2_000}},
		Workers:           workers,
	}
}

func work(ctx context.Context, pool *pgxpool.Pool, spec told) error {
	records, err := openRecorder(spec)
	if err != nil {
		return err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &billWorker{records: records})
	client, err := river.NewClient(riverpgxv5.New(pool), config(workers))
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	tell("ready", nil)
	isTold("stop")
	return client.Stop(ctx)
}

// transact inserts a row and its job in one transaction, as River's documents do it.
func transact(
	ctx context.Context, pool *pgxpool.Pool, client *river.Client[pgx.Tx], number int64, note string,
) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, "INSERT INTO invoice (number) VALUES ($1)", number); err != nil {
		return err
	}
	if _, err := client.InsertTx(ctx, tx, bill{Number: number, Note: note}, nil); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

func apply(ctx context.Context, pool *pgxpool.Pool, spec told) error {
	committed, err := openRecorder(spec)
	if err != nil {
		return err
	}
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		return err
	}
	tell("ready", nil)
	if !isTold("go") {
		return nil
	}
	began := time.Now()
	var next atomic.Int64
	var failure atomic.Value
	var group sync.WaitGroup
	for range spec.Writers {
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				number := next.Add(1) - 1
				if number >= spec.Count {
					return
				}
				if spec.Rate > 0 {
					due := time.Duration(float64(number) / spec.Rate * float64(time.Second))
					time.Sleep(time.Until(began.Add(due)))
				}
				if err := transact(ctx, pool, client, number, spec.Note); err != nil {
					failure.Store(err)
					return
				}
				if err := committed.note(number); err != nil {
					failure.Store(err)
					return
				}
			}
		}()
	}
	group.Wait()
	if err, failed := failure.Load().(error); failed {
		return err
	}
	tell("done", map[string]float64{"began_s": float64(began.UnixNano()) / 1e9, "ended_s": wallS()})
	return nil
}

func migrate(ctx context.Context, pool *pgxpool.Pool, _ told) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	tell("done", nil)
	return nil
}

func run() error {
	var spec told
	if err := json.Unmarshal([]byte(os.Args[1]), &spec); err != nil {
		return err
	}
	ctx := context.Background()
	if strings.HasPrefix(spec.URL, sqliteFile) {
		return runOnFile(ctx, spec)
	}
	pool, err := pgxpool.New(ctx, spec.URL)
	if err != nil {
		return err
	}
	defer pool.Close()
	kinds := map[string]func(context.Context, *pgxpool.Pool, told) error{
		"worker": work, "application": apply, "migrate": migrate,
	}
	return kinds[spec.Kind](ctx, pool, spec)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
