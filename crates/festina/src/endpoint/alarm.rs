//! Wakes the driver at a point in time, within tens of microseconds.
//!
//! tokio's own timers work on a wheel with slots of one millisecond and round up, so they fire 1.1 ms late on average. That would be a large part of
//! the few milliseconds of margin with which a thin stream's probe follows the round trip. Linux has a more precise clock: a timerfd, which the
//! runtime polls like any socket. A sending thread can also move the alarm by itself, without waking the driver's task.

#[cfg(target_os = "linux")]
pub(crate) use self::timerfd::{Alarm, Bell};
#[cfg(not(target_os = "linux"))]
pub(crate) use self::wheel::{Alarm, Bell};

#[cfg(target_os = "linux")]
mod timerfd {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use festina_units::Duration;
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use tokio::io::{AsyncRead, ReadBuf};
    use tokio::net::unix::pipe;

    /// One timer of the operating system, to be set by any thread.
    #[derive(Debug)]
    pub(crate) struct Alarm {
        timer: OwnedFd,
    }

    /// The same timer, to be waited for by the driver. To the runtime it is a special file that is read: 8 bytes, the number
    /// of times that it rang.
    #[derive(Debug)]
    pub(crate) struct Bell {
        timer: pipe::Receiver,
    }

    impl Alarm {
        /// The caller is inside a runtime. The timer uses the clock of [`now`](crate::now), so that it has rung when a suspension ends that was longer
        /// than its delay.
        pub(crate) fn new() -> io::Result<(Self, Bell)> {
            let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
            let bell = Bell { timer: pipe::Receiver::from_owned_fd_unchecked(timer.try_clone()?)? };
            Ok((Self { timer }, bell))
        }

        /// Rings once, `delay` from now, instead of whenever it was to ring before.
        pub(crate) fn set(&self, delay: Duration) {
            // A delay of zero would disarm the timer.
            let delay = delay.max(Duration::from_nanos(1));
            let delay = Timespec {
                tv_sec: i64::try_from(delay.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: delay.subsec_nanos().into(),
            };
            let once = Timespec { tv_sec: 0, tv_nsec: 0 };
            let setting = Itimerspec { it_interval: once, it_value: delay };
            timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &setting)
                .expect("setting an own timer to a valid time cannot fail");
        }
    }

    #[cfg(test)]
    impl Alarm {
        /// The number of its file descriptor.
        pub(crate) fn number(&self) -> i32 {
            std::os::fd::AsRawFd::as_raw_fd(&self.timer)
        }
    }

    impl Bell {
        /// Ready if it rang since the last call; otherwise the task is woken when it does.
        pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
            let mut rang = false;
            loop {
                // Twice the necessary size: a short read tells the runtime that nothing is left.
                let mut count = [0; 16];
                let mut buffer = ReadBuf::new(&mut count);
                match Pin::new(&mut self.timer).poll_read(context, &mut buffer) {
                    Poll::Ready(Ok(())) if !buffer.filled().is_empty() => rang = true,
                    // Only a runtime that shuts down fails here, and drops the task.
                    Poll::Ready(_) | Poll::Pending => break,
                }
            }
            if rang { Poll::Ready(()) } else { Poll::Pending }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod wheel {
    use std::future::Future;
    use std::io;
    use std::pin::Pin;
    use std::sync::{Arc, Mutex};
    use std::task::{Context, Poll, Waker};

    use festina_units::Duration;
    use tokio::time::{Instant, Sleep, sleep_until};

    use crate::locks::lock;

    /// A timer of the runtime, where the operating system has nothing better; to be set by any thread.
    #[derive(Debug)]
    pub(crate) struct Alarm {
        setting: Arc<Mutex<Setting>>,
    }

    /// The same timer, to be waited for by the driver. Only the driver is sure to be inside the runtime.
    #[derive(Debug)]
    pub(crate) struct Bell {
        setting: Arc<Mutex<Setting>>,
        sleep: Option<Pin<Box<Sleep>>>,
    }

    #[derive(Debug, Default)]
    struct Setting {
        rings_at: Option<Instant>,
        driver: Option<Waker>,
    }

    impl Alarm {
        pub(crate) fn new() -> io::Result<(Self, Bell)> {
            let setting = Arc::<Mutex<Setting>>::default();
            Ok((Self { setting: setting.clone() }, Bell { setting, sleep: None }))
        }

        /// Rings once, `delay` from now, instead of whenever it was to ring before.
        pub(crate) fn set(&self, delay: Duration) {
            let mut setting = lock(&self.setting);
            setting.rings_at = Instant::now().checked_add(delay);
            let driver = setting.driver.take();
            drop(setting);
            if let Some(driver) = driver {
                driver.wake();
            }
        }
    }

    impl Bell {
        /// Ready if it rang since the last call; otherwise the task is woken when it does.
        pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
            let mut setting = lock(&self.setting);
            let rang = setting.rings_at.is_some_and(|rings_at| {
                let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(rings_at)));
                if sleep.deadline() != rings_at {
                    sleep.as_mut().reset(rings_at);
                }
                sleep.as_mut().poll(context).is_ready()
            });
            if rang {
                setting.rings_at = None;
                self.sleep = None;
            }
            let replaced = setting.driver.replace(context.waker().clone());
            drop(setting);
            drop(replaced);
            if rang { Poll::Ready(()) } else { Poll::Pending }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use festina_units::Duration;

    use super::*;
    use crate::clock;

    async fn lateness(alarm: &Alarm, bell: &mut Bell, delay: Duration) -> Duration {
        let set_at = clock::now();
        alarm.set(delay);
        poll_fn(|context| bell.poll(context)).await;
        (clock::now() - set_at).checked_sub(delay).expect("an alarm never rings early")
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_alarm_is_closer_than_a_runtimes_timer_could_be() {
        let (alarm, mut bell) = Alarm::new().unwrap();
        let mut late = Vec::new();
        for round in 0_u64..41 {
            late.push(lateness(&alarm, &mut bell, Duration::from_micros(1_000 + 70 * round)).await);
        }
        late.sort_unstable();
        let median = late[late.len() / 2];
        assert!(median < Duration::from_micros(500), "{median:?}");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_alarm_counts_the_time_in_suspension_as_the_clock_does() {
        let (alarm, _bell) = Alarm::new().unwrap();
        let of_timer = |text: &str| text.lines().any(|line| line.split_whitespace().eq(["clockid:", "7"]));
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", alarm.number())).unwrap();
        assert!(of_timer(&text), "7 is CLOCK_BOOTTIME: {text}");
    }

    #[tokio::test]
    async fn the_last_setting_counts() {
        let (alarm, mut bell) = Alarm::new().unwrap();
        alarm.set(Duration::from_secs(3_600));
        lateness(&alarm, &mut bell, Duration::from_millis(5)).await;
        alarm.set(Duration::from_millis(1));
        lateness(&alarm, &mut bell, Duration::from_millis(20)).await;
    }

    #[tokio::test]
    async fn an_alarm_set_by_another_thread_wakes_the_task_that_waits() {
        let (alarm, mut bell) = Alarm::new().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(10));
                alarm.set(Duration::ZERO);
            });
        });
        poll_fn(|context| bell.poll(context)).await;
        assert_eq!(poll_fn(|context| Poll::Ready(bell.poll(context))).await, Poll::Pending, "it rings once");
    }
}
