package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"
)

// Exit codes.
const (
	goalMissed  = 1
	notMeasured = 2
)

func main() {
	postgres := flag.String("postgres", "", "URL of an otherwise unused PostgreSQL server")
	redis := flag.String("redis", "", "Unix socket of an otherwise unused Redis server; all its data is deleted")
	ours := flag.String("ours", "bin/bench.json", "output file of make bench ONLY=decisions")
	jobs := flag.Int("jobs", 20_000, "number of jobs to publish, fail and reschedule; our figure uses 20,000")
	patience := flag.Duration("patience", 150*time.Second, "time limit for each measurement")
	flag.Parse()
	os.Exit(report(*postgres, *redis, *ours, *jobs, *patience))
}

func report(postgres, redis, ours string, jobs int, patience time.Duration) (exit int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rows, err := run(ctx, postgres, redis, ours, jobs)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-peers:", err)
		return notMeasured
	}
	fmt.Print(table(rows))
	for _, r := range rows {
		if !r.met() {
			exit = goalMissed
		}
	}
	return exit
}

func run(ctx context.Context, postgres, redis, file string, jobs int) ([]row, error) {
	peers := []struct {
		name string
		peer
		goal float64 // required ratio of our figure to theirs; 0 if only for information
	}{
		{"riverqueue/river on PostgreSQL", &riverPeer{url: postgres}, 1.8},
		{"hibiken/asynq on Redis", &asynqPeer{socket: redis, servers: 1}, 3},
		{"asynq, 8 servers in one process", &asynqPeer{socket: redis, servers: 8}, 0},
	}
	var rows []row
	for _, synced := range []bool{true, false} {
		own, err := readOurs(file, synced)
		if err != nil {
			return nil, err
		}
		for _, p := range peers {
			r, err := measure(ctx, p.name, p.peer, synced, jobs)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row{result: r, ours: own, goal: p.goal})
		}
	}
	return rows, nil
}
