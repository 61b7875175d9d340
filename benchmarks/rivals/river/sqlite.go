// A worker or a client of River on a file of SQLite, or its migrations, by the kind it is told.
package main

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	_ "modernc.org/sqlite"
)

const (
	chunk      = 5_000
	sqliteFile = "sqlite:"
)

// openFile opens the file as its driver's documents say: one connection, and two processes wait for
// each other.
func openFile(spec told) (*sql.DB, error) {
	path := strings.TrimPrefix(spec.URL, sqliteFile)
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(30000)"+spec.Pragmas)
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

func workOnFile(ctx context.Context, db *sql.DB, spec told) error {
	records, err := openRecorder(spec)
	if err != nil {
		return err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &billWorker{records: records})
	client, err := river.NewClient(riversqlite.New(db), config(workers))
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

func enqueueOnFile(ctx context.Context, db *sql.DB, spec told) error {
	client, err := river.NewClient(riversqlite.New(db), &river.Config{})
	if err != nil {
		return err
	}
	tell("ready", nil)
	if !isTold("go") {
		return nil
	}
	load, began := spec.Load, time.Now()
	size := int64(chunk)
	if load.Pace > 0 {
		size = max(1, min(size, int64(load.Pace*spec.TickS)))
	}
	for first := int64(0); first < load.Count; first += size {
		if load.Pace > 0 {
			due := time.Duration(float64(first) / load.Pace * float64(time.Second))
			time.Sleep(time.Until(began.Add(due)))
		}
		var jobs []river.InsertManyParams
		for each := first; each < min(load.Count, first+size); each++ {
			args := bill{Number: load.First + each, Note: spec.Note}
			jobs = append(jobs, river.InsertManyParams{Args: args})
		}
		if _, err := client.InsertMany(ctx, jobs); err != nil {
			return err
		}
	}
	beganS := float64(began.UnixNano()) / 1e9
	tell("done", map[string]float64{"began_s": beganS, "ended_s": wallS(), "due_s": load.DueS})
	return nil
}

func migrateFile(ctx context.Context, db *sql.DB, _ told) error {
	migrator, err := rivermigrate.New(riversqlite.New(db), nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	tell("done", nil)
	return nil
}

func runOnFile(ctx context.Context, spec told) error {
	db, err := openFile(spec)
	if err != nil {
		return err
	}
	defer db.Close()
	kinds := map[string]func(context.Context, *sql.DB, told) error{
		"worker": workOnFile, "client": enqueueOnFile, "migrate": migrateFile,
	}
	return kinds[spec.Kind](ctx, db, spec)
}
